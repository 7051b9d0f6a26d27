"""What OpenVINO refuses, or ends the process by, in a form that it loads."""
