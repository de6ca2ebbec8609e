//! Values as Python shows and judges them.

use minijinja::Value;

/// The text of a value as Python's `str()` gives it.
pub fn text(value: &Value) -> String {
    value.to_string()
}

/// The text of a value as Python's `repr()` gives it.
pub fn repr(value: &Value) -> String {
    format!("{value:?}")
}

/// Whether Python calls the value true.
pub fn truth(value: &Value) -> bool {
    value.is_true()
}

/// The name of the value's Python class, as `type_debug` gives it.
pub fn type_name(value: &Value) -> &'static str {
    use minijinja::value::ValueKind;
    match value.kind() {
        ValueKind::Undefined => "Undefined",
        ValueKind::None => "NoneType",
        ValueKind::Bool => "bool",
        ValueKind::Number if value.is_integer() => "int",
        ValueKind::Number => "float",
        ValueKind::String => "str",
        ValueKind::Bytes => "bytes",
        ValueKind::Seq if value.is_tuple() => "tuple",
        ValueKind::Seq | ValueKind::Iterable => "list",
        ValueKind::Map => "dict",
        _ => "object",
    }
}
