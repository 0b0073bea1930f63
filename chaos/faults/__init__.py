"""The faults: small frozen classes that compile to rules on links, disks, clocks and processes."""
