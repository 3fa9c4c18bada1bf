"""What a run does: it asks an agent, runs a workflow, or says the steps of a plan."""
