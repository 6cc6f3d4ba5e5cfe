"""What an accelerator brings, beside what the device can do."""
