"""What the metadata log says, replayed: shared by the controllers that write it and the brokers that follow it."""
