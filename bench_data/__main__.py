"""``python -m bench_data [--write]``."""

from bench_data.positions import main

main()
