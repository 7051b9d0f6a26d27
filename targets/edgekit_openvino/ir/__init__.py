"""OpenVINO's Intermediate Representation as a file: topology, weights and metadata."""
