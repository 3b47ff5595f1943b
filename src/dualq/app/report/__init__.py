"""What a person looks at: the page on the terminal, and one self-contained HTML file."""
