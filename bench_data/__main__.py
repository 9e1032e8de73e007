"""``python -m bench_data [--write]``."""

import sys

from bench_data.workloads import main

main(sys.argv[1:])
