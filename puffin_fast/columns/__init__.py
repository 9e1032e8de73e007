"""Arrow columns: conversion to plain types, selection of rows, rows of other libraries."""

from __future__ import annotations
