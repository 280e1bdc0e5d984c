"""The benchmarks behind README's figures: ratios, each side measured in the same run."""
