"""What tests share: helpers that belong to no package."""
