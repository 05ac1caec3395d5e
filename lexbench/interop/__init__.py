"""Other tools: their files written from our results and read into ours, their leaderboards, and stores at a URL."""
