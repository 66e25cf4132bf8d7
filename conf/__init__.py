"""The shipped settings, as a package so that they are found wherever groupledger is installed."""
