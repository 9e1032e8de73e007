"""Coverage-guided fuzzing of the decoders and of the kernels' identities."""
