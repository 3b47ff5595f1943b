"""What a person looks at: one self-contained HTML page."""
