"""The work behind `lexbench compare`: do scores differ, which settings differ, and which queries changed, and why."""
