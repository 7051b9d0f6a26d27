"""Recurrent layers in forms that every runtime has: one direction, one length, or step by step."""
