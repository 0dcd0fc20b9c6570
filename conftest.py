"""For the project's own tests. A suite needs nothing from here: the plugin brings its fixtures itself."""

pytest_plugins = ["pytester"]
