//! Host, connection and user of a task.

use std::sync::{Arc, LazyLock};

use windlass_template::{Context, Value, Variable, Variables};
use windlass_yaml::Node;

use super::execute::TaskOnHost;
use crate::action::Failure;
use crate::vars::{connection_variables, given, unless_omitted};

/// Connection variables with both their names; setting one sets the other too.
static NAMES: LazyLock<[[Arc<str>; 2]; 8]> = LazyLock::new(|| {
    [
        ["ansible_ssh_host", "ansible_host"],
        ["ansible_connection"; 2],
        ["ansible_ssh_user", "ansible_user"],
        ["ansible_ssh_pass", "ansible_password"],
        ["ansible_ssh_port", "ansible_port"],
        ["ansible_ssh_timeout", "ansible_timeout"],
        ["ansible_ssh_private_key_file", "ansible_private_key_file"],
        ["ansible_shell_executable"; 2],
    ]
    .map(|names| names.map(Arc::from))
});

impl TaskOnHost {
    /// Variables of a task, with defaults for connection variables that nobody has set.
    pub(super) fn with_connection(&self, context: &Context, host: &str) -> Context {
        let settings = &self.shared.run.settings;
        let keyword = |name: &str| self.keyword(context, name).and_then(|node| given(context, node).ok()?);
        let address = || {
            let theirs = self.world.host_context(&Arc::from(host)).variable("ansible_host").ok().flatten();
            let is_implicit = self.world.inventory.host(host).is_some_and(|host| host.is_implicit());
            let own = if is_implicit { "127.0.0.1" } else { host };
            theirs.filter(|_| host != &*self.host).or_else(|| Some(Value::from(own)))
        };
        let connection = || keyword("connection").or_else(|| Some(Value::from(settings.connect.transport.as_str())));
        let user = || keyword("remote_user").or_else(|| settings.connect.remote_user.as_deref().map(Value::from));
        // The keyword `port` sets no variable.
        let port = || settings.connect.remote_port.map(Value::from);
        let key = || settings.connect.private_key_file.as_ref().map(|file| Value::from(file.display().to_string()));
        let timeout = || Some(Value::from(settings.connect.timeout));
        let shell = || Some(Value::from("/bin/sh"));
        let password = || settings.connect.password.as_ref().map(|password| Value::from(password.expose()));
        let usual: [&dyn Fn() -> Option<Value>; 8] =
            [&address, &connection, &user, &password, &port, &timeout, &key, &shell];
        let mut missing = Variables::default();
        for (names, usual) in NAMES.iter().zip(usual) {
            let (unset, value) = match names.each_ref().map(|name| context.variable(name)) {
                [Ok(None), Ok(None)] => (&names[..], usual()),
                [Ok(None), Ok(set)] => (&names[..1], set),
                [Ok(set), Ok(None)] => (&names[1..], set),
                _ => continue,
            };
            if let Some(value) = value {
                missing.extend(unset.iter().map(|name| (Arc::clone(name), Variable::Data(value.clone()))));
            }
        }
        if missing.is_empty() { context.clone() } else { context.with(missing) }
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
        Ok(Some(name))
    }

    /// Nearest value of a keyword that is not `omit`.
    pub(super) fn keyword(&self, context: &Context, name: &str) -> Option<&Node> {
        self.task.keyword_values(name).find(|node| !matches!(unless_omitted(context, node), Ok(None)))
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
                let mut connection = connection_variables(&self.host, context, &keyword, settings)?;
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
