//! The executor: started on a host by the controller, it answers requests on its standard input and leaves nothing running.

fn main() {}
