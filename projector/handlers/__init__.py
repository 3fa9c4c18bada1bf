"""What each provider event becomes: one module per section of the contract, and the tables that name them."""
