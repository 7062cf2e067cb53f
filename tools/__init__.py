"""What the repository makes of itself: completions, and the generated parts of its documents."""
