//! Host, connection and user of a task.

use std::fmt;
use std::sync::Arc;

use windlass_template::{Context, Defaults, Value, Variable, Variables};
use windlass_yaml::Node;

use super::execute::Shared;
use crate::action::Failure;
use crate::outcome::LONGEST_HOST;
use crate::playbook::Task;
use crate::vars::{World, connection_variables, given, unless_omitted};

/// Connection variables under both their names; setting one sets the other too.
const NAMES: [[&str; 2]; 8] = [
    ["ansible_ssh_host", "ansible_host"],
    ["ansible_connection"; 2],
    ["ansible_ssh_user", "ansible_user"],
    ["ansible_ssh_pass", "ansible_password"],
    ["ansible_ssh_port", "ansible_port"],
    ["ansible_ssh_timeout", "ansible_timeout"],
    ["ansible_ssh_private_key_file", "ansible_private_key_file"],
    ["ansible_shell_executable"; 2],
];

/// Defaults of the connection variables of one host in a task.
struct Usual {
    context: Context,
    shared: Arc<Shared>,
    world: Arc<World>,
    task: Arc<Task>,
    /// Host of the task.
    host: Arc<str>,
    /// Host to connect to.
    target: Arc<str>,
}

impl fmt::Debug for Usual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Usual").field("target", &self.target).finish_non_exhaustive()
    }
}

impl Defaults for Usual {
    fn names(&self) -> &'static [&'static str] {
        NAMES.as_flattened()
    }

    fn get(&self, name: &str) -> Option<Value> {
        let [old, new] = NAMES.iter().find(|names| names.contains(&name))?;
        let other = if name == *old { new } else { old };
        match self.context.variable(other) {
            Ok(None) => self.usual(new),
            Ok(set) => set,
            Err(_) => None,
        }
    }
}

impl Usual {
    /// Value of a connection variable that is set under neither name.
    fn usual(&self, name: &str) -> Option<Value> {
        let connect = &self.shared.run.settings.connect;
        let keyword =
            |name| keyword(&self.task, &self.context, name).and_then(|node| given(&self.context, node).ok()?);
        match name {
            "ansible_host" => {
                let is_implicit = self.world.inventory.host(&self.target).is_some_and(|host| host.is_implicit());
                let own = if is_implicit { "127.0.0.1" } else { &*self.target };
                let theirs = (self.target != self.host).then(|| self.world.host_context(&self.target));
                theirs.and_then(|theirs| theirs.variable(name).ok()?).or_else(|| Some(Value::from(own)))
            }
            "ansible_connection" => keyword("connection").or_else(|| Some(Value::from(connect.transport.as_str()))),
            "ansible_user" => keyword("remote_user").or_else(|| connect.remote_user.as_deref().map(Value::from)),
            "ansible_password" => connect.password.as_ref().map(|password| Value::from(password.expose())),
            // The keyword `port` sets no variable.
            "ansible_port" => connect.remote_port.map(Value::from),
            "ansible_timeout" => Some(Value::from(connect.timeout)),
            "ansible_private_key_file" => {
                connect.private_key_file.as_ref().map(|file| Value::from(file.display().to_string()))
            }
            _ => Some(Value::from("/bin/sh")),
        }
    }
}

/// Nearest value of a keyword that is not `omit`.
fn keyword<'t>(task: &'t Task, context: &Context, name: &str) -> Option<&'t Node> {
    task.keyword_values(name).find(|node| !matches!(unless_omitted(context, node), Ok(None)))
}

/// Where a task runs: the host, or the host that it is delegated to, with the connection and the user there.
#[derive(Clone, Copy)]
pub(super) struct Placement<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) world: &'a Arc<World>,
    pub(super) task: &'a Arc<Task>,
    pub(super) host: &'a Arc<str>,
}

impl<'a> Placement<'a> {
    /// Variables of a task, with defaults for connection variables that nobody has set.
    pub(super) fn with_connection(&self, context: &Context, host: &Arc<str>) -> Context {
        context.with_defaults(Arc::new(Usual {
            context: context.clone(),
            shared: Arc::clone(self.shared),
            world: Arc::clone(self.world),
            task: Arc::clone(self.task),
            host: Arc::clone(self.host),
            target: Arc::clone(host),
        }))
    }

    /// Host that the task is delegated to, if any.
    pub(super) fn delegate(&self, context: &Context) -> Result<Option<String>, Failure> {
        let Some(node) = self.task.keyword("delegate_to") else { return Ok(None) };
        let Some(value) = unless_omitted(context, node)? else { return Ok(None) };
        if node.as_str() == Some("") {
            return Ok(None);
        }
        let name = windlass_template::text(&value);
        if name.is_empty() || value.is_none() {
            return Err(Failure::Failed("delegate_to is empty: it must name a host".to_owned()));
        }
        if name.len() > LONGEST_HOST {
            let length = name.len();
            let message = format!("the name in delegate_to has {length} bytes, and {LONGEST_HOST} are the most");
            return Err(Failure::Failed(message));
        }
        Ok(Some(name))
    }

    /// Nearest value of a keyword that is not `omit`.
    pub(super) fn keyword(&self, context: &Context, name: &str) -> Option<&'a Node> {
        keyword(self.task, context, name)
    }

    /// Adds the variables of the host that the task is delegated to.
    pub(super) fn with_delegate(&self, plain: &Context, other: &str) -> Context {
        let theirs = crate::vars::variables_of(self.world, &Arc::from(other));
        let vars = Value::from_pairs([(Value::from(other), theirs)]);
        self.with_connection(plain, &Arc::from(other))
            .with(Variables::from_iter([(Arc::from("ansible_delegated_vars"), Variable::Data(vars))]))
    }

    /// Connection variables of the host, or of the host the task is delegated to.
    pub(super) fn connection(
        &self,
        context: &Context,
        delegate: Option<&str>,
    ) -> Result<crate::vars::ConnectionVariables, Failure> {
        let keyword = |name: &str| self.keyword(context, name).cloned();
        let settings = &self.shared.run.settings;
        match delegate {
            None => {
                let mut connection = connection_variables(self.host, context, &keyword, settings)?;
                self.local_by_name(&mut connection, context);
                Ok(connection)
            }
            Some(other) => {
                let name: Arc<str> = Arc::from(other);
                let theirs = self.world.host_context(&name);
                // Keywords belong to the task and see its variables; connection variables belong to the other host.
                let rendered = |name: &str| {
                    let node = keyword(name)?;
                    let value = given(context, &node).ok()??;
                    Some(Node::literal(windlass_template::text(&value), node.span.clone()))
                };
                let mut connection = connection_variables(other, &theirs, &rendered, settings)?;
                self.local_by_name(&mut connection, &theirs);
                Ok(connection)
            }
        }
    }

    /// Uses a local connection for the implicit localhost.
    fn local_by_name(&self, connection: &mut crate::vars::ConnectionVariables, context: &Context) {
        let name = &connection.target.name;
        let implicit = self.world.inventory.host(name).is_some_and(windlass_inventory::Host::is_implicit);
        let said = context.variable("ansible_connection").ok().flatten().is_some()
            || self.task.keyword("connection").is_some();
        if implicit && !said {
            connection.target.kind = crate::connection::Kind::Local;
        }
    }
}
