use windlass_template::Value;

use super::{ActionContext, Failure};
use crate::strategy::TaskResult;

/// A module without a part on the controller.
pub(super) async fn run(context: &ActionContext) -> Result<TaskResult, Failure> {
    let args = Value::from_pairs(context.args.iter().map(|(key, value)| (Value::from(&**key), value.clone())));
    context.module(&context.task_module(), args, Vec::new()).await
}

/// `gather_facts`: the `setup` module.
pub(super) async fn gather_facts(context: &ActionContext) -> Result<TaskResult, Failure> {
    let args = context.args.iter().filter(|(key, _)| &***key != "parallel");
    let args = Value::from_pairs(args.map(|(key, value)| (Value::from(&**key), value.clone())));
    context.module("ansible.builtin.setup", args, Vec::new()).await
}

impl ActionContext {
    /// The module the task names, as it was written.
    fn task_module(&self) -> String {
        match windlass_modules::registry::find(&self.task.action) {
            Some(_) => self.task.action.clone(),
            None => self.action.clone(),
        }
    }
}
