"""onnxruntime-web in Chromium as a device."""
