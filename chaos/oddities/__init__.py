"""Legal oddities: scenarios in which something happens that looks wrong and is not, so that no check may object."""
