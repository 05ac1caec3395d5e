"""Clients of what runs outside lexbench: servers, asked over HTTP, and programs, asked over a pipe."""
