"""The device ``browser``: onnxruntime-web in Chromium."""
