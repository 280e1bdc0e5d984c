"""The benchmarks behind docs/measurements.md: ratios, each side measured in the same run."""
