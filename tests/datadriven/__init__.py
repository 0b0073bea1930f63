"""Protocol behaviour as scripts whose whole expected output stands below the commands."""
