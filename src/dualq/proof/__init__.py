"""What docs/certificate.md proves, step by step: evidence, event 1 (noise), event 2 (successors), floors."""
