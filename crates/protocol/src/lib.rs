//! Frames between the controller and the executor.
