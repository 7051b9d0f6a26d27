"""OpenVINO's Intermediate Representation as a file: topology, weights and what it says of itself."""
