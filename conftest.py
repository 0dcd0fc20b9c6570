"""Nothing is needed here: the plugin brings its own fixtures. Local hooks and profiles may go in."""
