"""What OpenVINO's CPU plugin computes slowly, in a form that it computes quickly."""
