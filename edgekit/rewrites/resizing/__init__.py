"""``Resize`` in forms that every runtime has: by tables at fixed sizes, by gathers at sizes that a run tells."""
