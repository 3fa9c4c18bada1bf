"""What may be run: agents and workflows of the configuration, and workflows of configured nodes."""
