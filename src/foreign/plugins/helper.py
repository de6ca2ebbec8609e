# Runs filter, test, lookup, inventory, vars, cache, callback and action plugins for Windlass. Requests and answers are
# JSON objects, one per line. The functions for vars and cache plugins, callbacks and actions stand before this file.
import base64
import collections.abc
import contextlib
import copy
import importlib.util
import json
import math
import os
import sys
import threading

try:
    # Other processes of the user must not read what arrives here: PR_SET_DUMPABLE, which execve has reset.
    import ctypes
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
except (ImportError, OSError, AttributeError):
    # A Python built without ctypes evaluates plugins nevertheless.
    pass

# Programs that a plugin starts inherit neither: they would take requests, or spoil answers. What the plugin and they
# print goes to the standard error, which Windlass masks, escapes and prints.
requests, wire = os.fdopen(os.dup(0), encoding='utf-8'), os.fdopen(os.dup(1), 'w', encoding='utf-8')
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.dup2(2, 1)
sys.stdout.reconfigure(errors='backslashreplace', line_buffering=True)
setup = json.loads(requests.readline())
sys.path[:0] = setup['paths']


def readable(text):
    """The text without halves of surrogate pairs, in which Python keeps bytes that are not UTF-8."""
    return str.__str__(text).encode('utf-8', 'replace').decode()


def packed(value):
    """Encodes a value as JSON, with tagged objects for types that JSON lacks."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {'$': 'float', 'v': repr(float(value))}
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, bytes):
        return value.decode('utf-8', 'replace')
    if hasattr(value, 'items') and hasattr(value, 'keys'):
        pairs = [(packed(key), packed(item)) for key, item in value.items()]
        if all(isinstance(key, str) for key, _ in pairs) and '$' not in value:
            return dict(pairs)
        return {'$': 'pairs', 'v': pairs}
    if isinstance(value, tuple):
        return {'$': 'tuple', 'v': [packed(item) for item in value]}
    if type(value).__name__.endswith('Undefined') or type(value).__name__.endswith('Marker'):
        return {'$': 'undefined', 'v': getattr(value, '_undefined_name', None) or ''}
    if hasattr(value, '__iter__'):
        return [packed(item) for item in value]
    if hasattr(value, 'isoformat'):
        return value.isoformat(' ') if hasattr(value, 'hour') and hasattr(value, 'year') else value.isoformat()
    return str(value)


def unpacked(value):
    if isinstance(value, list):
        return [unpacked(item) for item in value]
    if isinstance(value, dict):
        mark = value.get('$')
        if mark == 'pairs':
            return {unpacked(key): unpacked(item) for key, item in value['v']}
        if mark == 'tuple':
            return tuple(unpacked(item) for item in value['v'])
        if mark == 'float':
            return float(value['v'])
        return {key: unpacked(item) for key, item in value.items()}
    return value


# Number of the request under way, None between two; the process that may ask about it; the turn of its threads to do
# so; and whether the answer to a question was not read, because a signal interrupted the wait.
number, asker, turn, is_owed = None, os.getpid(), threading.Lock(), False


def say(answer):
    wire.write(json.dumps({**answer, 'to': number}) + '\n')
    wire.flush()


def ask(question, of=None):
    """Sends a question to Windlass, which is waiting for the result, and returns the answer.

    A thread that outlives its request, whose number is `of`, must not ask about the host of the next one.
    """
    global is_owed
    if os.getpid() != asker:
        raise LookupError('a process that a plugin has forked cannot ask Windlass for anything')
    with turn:
        if number is None or of not in (None, number):
            raise LookupError('the call of the plugin that asks has ended')
        if is_owed:
            raise LookupError('an earlier question of the plugin was interrupted')
        is_owed = True
        say({'ask': question})
        answer = json.loads(requests.readline())
        is_owed = False
    if 'error' in answer:
        raise LookupError(answer['error'])
    return unpacked(answer['value'])


class Variables(collections.abc.MutableMapping, dict):
    """Variables of the host, fetched on access, and those that the plugin has changed. To code that asks, it is a dict."""

    def __init__(self, own=(), gone=(), fetched=None, of=None):
        self.own, self.gone = dict(own), set(gone)
        self.of = of or number
        self.fetched = {} if fetched is None else fetched

    def __getitem__(self, name):
        if name in self.own:
            return self.own[name]
        if name not in self.fetched:
            self.fetched[name] = ask({'variable': name}, self.of)
        if name in self.gone or not self.fetched[name]:
            raise KeyError(name)
        return self.fetched[name][0]

    def __setitem__(self, name, value):
        self.own[name] = value

    def __delitem__(self, name):
        self[name]
        self.own.pop(name, None)
        self.gone.add(name)

    def __contains__(self, name):
        return self.get(name, self) is not self

    def __iter__(self):
        names = dict.fromkeys(name for name in ask({'names': True}, self.of) if name not in self.gone)
        return iter({**names, **self.own})

    def __len__(self):
        return len(list(iter(self)))

    def keys(self):
        """Names of the variables that have a value: a copy of all must not fail for one that cannot be evaluated."""
        return [name for name in self if name in self]

    def items(self):
        return [(name, self[name]) for name in self.keys()]

    def values(self):
        return [self[name] for name in self.keys()]

    def copy(self):
        return Variables(self.own, self.gone, self.fetched, self.of)

    __copy__ = copy

    def __deepcopy__(self, memo):
        return Variables(copy.deepcopy(self.own, memo), self.gone, copy.deepcopy(self.fetched, memo), self.of)

    def __or__(self, other):
        both = self.copy()
        both.update(other)
        return both

    def __ior__(self, other):
        self.update(other)
        return self


class Options(collections.abc.Mapping):
    """Variables from which ansible-core takes options of a plugin: those of the host that the project has set, and all
    that the plugin has changed. A host could choose the value of a fact, and with it where a plugin connects."""

    def __init__(self, given):
        self.given, self.all = given, Variables()

    def __getitem__(self, name):
        value = self.given[name]
        if name not in self.all or self.all[name] != value:
            return value
        own = ask({'variable': name, 'is_option': True})
        if not own:
            raise KeyError(name)
        return own[0]

    def __iter__(self):
        return iter(self.given)

    def __len__(self):
        return len(self.given)

    def keys(self):
        return [name for name in self if name in self]


options_ready = False


def prepare_options():
    """Lets ansible-core take options of plugins only from variables that the project has set."""
    global options_ready
    if options_ready:
        return
    options_ready = True
    try:
        from ansible.config.manager import ConfigManager
    except ImportError:
        return
    usual = ConfigManager.get_config_value_and_origin

    def get_config_value_and_origin(self, *args, **kwargs):
        if kwargs.get('plugin_type') and kwargs.get('variables') is not None:
            kwargs['variables'] = Options(kwargs['variables'])
        return usual(self, *args, **kwargs)

    ConfigManager.get_config_value_and_origin = get_config_value_and_origin


def changed(variables):
    """The variables in a mapping that are not those of the host."""
    return variables.own if isinstance(variables, Variables) else variables or {}


def is_trusted(text):
    """Tells whether a plugin passed this text to ansible-core's trust_as_template.

    Nothing else is rendered: text that a plugin builds may contain data of hosts. Before 2.19, there is no such tag.
    """
    try:
        from ansible._internal._datatag._tags import TrustedAsTemplate
    except ImportError:
        return False
    return TrustedAsTemplate.is_tagged_on(text)


class Templar:
    """The parts of Ansible's Templar that lookups and actions use."""

    environment = None

    def __init__(self, variables, of=None):
        self.available_variables = variables
        self.of = of or number

    @property
    def _available_variables(self):
        return self.available_variables

    def template(self, value, **_):
        if isinstance(value, str):
            if not self.is_template(value):
                return value
            question = {'template': str(value), 'vars': packed(changed(self.available_variables))}
            try:
                return ask(question, self.of)
            except LookupError as error:
                raise undefined()(str(error)) from error
        if isinstance(value, list):
            return [self.template(item) for item in value]
        if isinstance(value, dict):
            return {key: self.template(item) for key, item in value.items()}
        return value

    def is_template(self, value):
        return isinstance(value, str) and ('{{' in value or '{%' in value) and is_trusted(value)

    def copy_with_new_env(self, available_variables=None, **_):
        return Templar(self.available_variables if available_variables is None else available_variables, self.of)

    @contextlib.contextmanager
    def set_temporary_context(self, available_variables=None, **_):
        usual = self.available_variables
        if available_variables is not None:
            self.available_variables = available_variables
        try:
            yield
        finally:
            self.available_variables = usual


def undefined():
    """The exception of a template that fails: nearly always because of something undefined."""
    try:
        from ansible.errors import AnsibleUndefinedVariable
    except ImportError:
        return LookupError
    return AnsibleUndefinedVariable


loaded = {}
collections_ready = False


def find_collections():
    """Installs ansible-core's collection loader, which does not recognise modules imported before it."""
    global collections_ready
    if not collections_ready:
        collections_ready = True
        try:
            from ansible.plugins import loader
        except ImportError:
            return
        if hasattr(loader, 'init_plugin_loader'):
            loader.init_plugin_loader(setup['collections'])


def load(path, kind, name):
    """Imports a plugin's file under a module name like Ansible's."""
    if path not in loaded:
        if '/ansible_collections/' in path:
            find_collections()
            inside = path[path.rindex('/ansible_collections/') + 1:-len('.py')]
            loaded[path] = importlib.import_module(inside.replace('/', '.'))
        else:
            spec = importlib.util.spec_from_file_location('ansible.plugins.%s.%d_%s' % (kind, len(loaded), name), path)
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
            loaded[path] = module
    return loaded[path]


functions = {}


def table(kind, path):
    """Functions in a file of filters or tests, by name."""
    if (kind, path) not in functions:
        module = load(path, kind, os.path.basename(path)[:-3])
        if kind == 'filter':
            found = module.FilterModule().filters() if hasattr(module, 'FilterModule') else {}
        else:
            found = module.TestModule().tests() if hasattr(module, 'TestModule') else {}
        functions[kind, path] = found
    return functions[kind, path]


def call(request):
    function = table(request['kind'], request['path'])[request['name']]
    arguments = unpacked(request['arguments'])
    wanted = str(getattr(function, 'jinja_pass_arg', '')).rsplit('.')[-1].lower()
    if wanted:
        import jinja2
        environment = jinja2.Environment()
        if wanted == 'environment':
            first = environment
        elif wanted == 'context':
            first = environment.from_string('').new_context({})
        else:
            first = jinja2.nodes.EvalContext(environment)
        arguments.insert(0, first)
    return function(*arguments, **unpacked(request['named']))


def lookup(request):
    from ansible.plugins.loader import lookup_loader
    from ansible.parsing.dataloader import DataLoader

    prepare_options()
    find_collections()
    if not request['name'].count('.'):
        lookup_loader.add_directory(os.path.dirname(request['path']))
    variables = Variables()
    files = DataLoader()
    files.set_basedir(setup['basedir'])
    plugin = lookup_loader.get(request['name'], loader=files, templar=Templar(variables))
    if plugin is None:
        raise LookupError('ansible-core does not find it')
    return list(plugin.run(unpacked(request['terms']), variables=variables, **unpacked(request['named'])))


def data_loader(request):
    """The loader of files, with the vault passwords of the run."""
    from ansible.parsing.dataloader import DataLoader
    from ansible.parsing import vault

    files = DataLoader()
    files.set_basedir(setup['basedir'])
    passwords = [(label, vault.VaultSecret(base64.b64decode(password))) for label, password in request['secrets']]
    files.set_vault_secrets(passwords)
    # Since 2.19, encrypted options of plugins are decrypted with these.
    if hasattr(vault, 'VaultSecretsContext'):
        vault.VaultSecretsContext.initialize(vault.VaultSecretsContext(passwords))
    return files


def read_inventory(request):
    """Runs an inventory plugin. Returns groups and hosts as an inventory script prints them."""
    from ansible import context
    from ansible.inventory.data import InventoryData
    from ansible.module_utils.common.collections import ImmutableDict
    from ansible.plugins import loader

    find_collections()
    loader.add_all_plugin_dirs(setup['basedir'])
    # Read by plugins with the option use_extra_vars.
    context.CLIARGS = ImmutableDict(extra_vars=(json.dumps(request['extra_vars']),))
    files = data_loader(request)
    plugin = loader.inventory_loader.get(request['name'])
    if plugin is None:
        raise LookupError('ansible-core does not find it')
    if not plugin.verify_file(request['path']):
        raise LookupError('it does not accept a file of this name; its documentation says which names it reads')
    inventory = InventoryData()
    inventory.current_source = request['path']
    plugin.parse(inventory, files, request['path'], cache=request['cache'])
    try:
        plugin.update_cache_if_changed()
    except AttributeError:
        # It has no cache, or has not opened it.
        pass
    inventory.reconcile_inventory()
    secrets = []
    groups = {
        str(name): {
            'hosts': [str(host.name) for host in group.hosts],
            'children': [str(child.name) for child in group.child_groups],
            'vars': of_inventory(variables(group), secrets),
        } for name, group in inventory.groups.items()
    }
    own = ('inventory_file', 'inventory_dir')
    hostvars = {
        str(name): of_inventory({key: value for key, value in host.vars.items() if key not in own}, secrets)
        for name, host in inventory.hosts.items()
    }
    groups['_meta'] = {'hostvars': hostvars}
    return {'groups': groups, 'secrets': secrets, 'trusted': bool(getattr(plugin, 'trusted_by_default', False))}


def variables(group):
    """Variables of a group, with the one that ansible-core turns into an attribute."""
    priority = getattr(group, 'priority', 1)
    return group.vars if priority == 1 else {'ansible_group_priority': priority, **group.vars}


def of_inventory(value, secrets):
    """Encodes a variable as JSON, and collects what was encrypted. Without a place for it, it is only marked."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else repr(float(value))
    if type(value).__name__ in ('EncryptedString', 'AnsibleVaultEncryptedUnicode'):
        if secrets is None:
            return {'__ansible_vault': ''}
        secrets.append(str(value))
        return str(value)
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, bytes):
        return value.decode('utf-8', 'replace')
    if hasattr(value, 'items') and hasattr(value, 'keys'):
        return {readable(str(key)): of_inventory(item, secrets) for key, item in value.items()}
    if hasattr(value, '__iter__'):
        return [of_inventory(item, secrets) for item in value]
    return readable(str(value))


def message_of(error, with_type=False):
    """The message of an exception. Those of ansible-core have one to show; others may need their type before it."""
    kind = type(error).__name__
    try:
        shown = getattr(error, 'message', None)
        text = str(shown) if shown else '%s: %s' % (kind, error) if with_type else str(error)
    except Exception:
        text = ''
    return readable(text or kind)


def finish(answer):
    """Answers the request under way. If Windlass still owes an answer to a question, this process takes no other."""
    global number
    with turn:
        say({**answer, 'is_last': True} if is_owed else answer)
        number = None


def flush():
    """Hands over what the plugin has printed, unless it has closed the streams."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass


def main():
    global number
    for line in iter(requests.readline, ''):
        number, request = json.loads(line)
        try:
            if request['do'] == 'names':
                answer = {'value': sorted(table(request['kind'], request['path']))}
            elif request['do'] == 'lookup':
                answer = {'value': packed(lookup(request))}
            elif request['do'] == 'inventory':
                answer = {'value': read_inventory(request)}
            elif request['do'] == 'start vars':
                answer = {'value': start_vars(request)}
            elif request['do'] == 'vars':
                answer = {'value': variables_of(request)}
            elif request['do'] == 'start cache':
                answer = {'value': start_cache(request)}
            elif request['do'] == 'read cache':
                answer = {'value': read_cache(request)}
            elif request['do'] == 'write cache':
                answer = {'value': write_cache(request)}
            elif request['do'] == 'start callback':
                answer = {'value': start_callback(request)}
            elif request['do'] == 'event':
                answer = {'value': call_back(request)}
            elif request['do'] == 'act':
                answer = act_apart(request)
            elif request['do'] == 'end':
                answer = {'value': end_callback()}
            else:
                answer = {'value': packed(call(request))}
        except BaseException as error:
            answer = {'error': message_of(error), 'undefined': 'Undefined' in type(error).__name__}
        if os.getpid() != asker:
            # A process that the plugin has forked.
            os._exit(0)
        flush()
        # The process of an action has answered itself.
        if answer is not None:
            finish(answer)
        if is_owed or (answer or {}).get('is_last'):
            # Windlass ends this process.
            for _ in requests:
                pass


main()
