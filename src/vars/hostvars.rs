//! `hostvars`: the variables of every host, evaluated on access.

use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr};
use windlass_template::Value;

use super::world::World;

/// Value of `hostvars`.
#[derive(Debug)]
pub(super) struct HostVars(pub(super) Arc<World>);

/// Value of `hostvars[name]`.
pub(crate) fn variables_of(world: &Arc<World>, name: &Arc<str>) -> Value {
    Value::from_object(OneHost { world: Arc::clone(world), name: Arc::clone(name) })
}

impl Object for HostVars {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let name = key.as_str()?;
        let name = self.0.inventory.host(name).map(|_| Arc::from(name)).or_else(|| super::known_host(&self.0, name))?;
        Some(Value::from_object(OneHost { world: Arc::clone(&self.0), name }))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.inventory.hosts().map(|host| Value::from(&**host.name())).collect())
    }
}

/// Value of `hostvars[name]`.
#[derive(Debug)]
struct OneHost {
    world: Arc<World>,
    name: Arc<str>,
}

impl Object for OneHost {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let name = key.as_str()?;
        // A variable that fails to evaluate becomes an invalid value; only its users see the error.
        let context = self.world.host_context(&self.name);
        let value = match self.world.run.settings.compat.keeps_undefined_in_hostvars() {
            true => context.variable_as_far_as_defined(name),
            false => context.variable(name),
        };
        match value {
            Ok(value) => value,
            Err(error) => Some(Value::from(minijinja::Error::from(error))),
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        // Omits variables that contain all hosts again, and those without a value outside a play. None is rendered: one
        // that contains hosts would list their variables, and so on at every level.
        let context = self.world.host_context(&self.name);
        let listed = |name: &&Arc<str>| !matches!(&***name, "hostvars" | "vars") && context.definition(name).is_some();
        Enumerator::Values(context.names().iter().filter(listed).map(|name| Value::from(&**name)).collect())
    }
}
