//! Throwaway systemd hosts on this machine.
