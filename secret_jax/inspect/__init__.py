"""What a fitted tree tells: text, tables, pictures, code, explanations, intervals."""
