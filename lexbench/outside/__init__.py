"""Search systems outside lexbench: clients of servers (HTTP) and programs (pipes), and checks of what answers."""
