# Runs vars plugins for Windlass, for one group or host at a time.


vars_plugins = []


def start_vars(request):
    """Loads the vars plugins. Returns their number."""
    from ansible.plugins import loader

    find_collections()
    files = data_loader(request)
    for folder in request['folders']:
        loader.vars_loader.add_directory(folder)
    for name in request['names']:
        plugin = loader.vars_loader.get(name)
        if plugin is None:
            raise LookupError('ansible-core does not find the plugin %s' % name)
        needs_enabled = getattr(plugin, 'REQUIRES_ENABLED', getattr(plugin, 'REQUIRES_WHITELIST', False))
        if name in request['enabled'] or not needs_enabled:
            vars_plugins.append((name, plugin, files))
    return len(vars_plugins)


def variables_of(request):
    """Variables that each plugin gives to a group or host. An entity has no variables and members of its own."""
    from ansible.inventory.group import Group
    from ansible.inventory.host import Host

    name, secrets, given = request['name'], [], []
    entity = Group(name) if request['is_group'] else Host(name)
    for plugin_name, plugin, files in vars_plugins:
        try:
            if hasattr(plugin, 'get_vars'):
                found = plugin.get_vars(files, request['path'], [entity])
            elif request['is_group']:
                found = plugin.get_group_vars(name)
            else:
                found = plugin.get_host_vars(name)
        except Exception as error:
            raise RuntimeError('%s: %s' % (plugin_name, reason(error)))
        if not hasattr(found, 'items'):
            raise TypeError('%s: it must return a mapping, and not %s' % (plugin_name, type(found).__name__))
        place = getattr(sys.modules.get(type(plugin).__module__), '__file__', None) or plugin_name
        templates = {key: value for key, value in found.items() if are_templates(value)}
        data = {key: value for key, value in found.items() if key not in templates}
        for part, trusted in (data, False), (templates, True):
            if part:
                given.append({'plugin': place, 'vars': of_inventory(part, secrets), 'trusted': trusted})
    return {'given': given, 'secrets': secrets}


def marked(value):
    """Strings in a value that look like templates."""
    if isinstance(value, str):
        return [value] if any(mark in value for mark in ('{{', '{%', '{#')) else []
    if hasattr(value, 'items') and hasattr(value, 'keys'):
        value = list(value.values())
    return [text for item in value for text in marked(item)] if isinstance(value, (list, tuple)) else []


def are_templates(value):
    """Tells whether the value has templates: strings tagged so, as those are that the loader reads, and no others."""
    texts = marked(value)
    return bool(texts) and all(is_trusted(text) for text in texts)


