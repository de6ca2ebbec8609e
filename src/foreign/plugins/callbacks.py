# Runs a callback plugin for Windlass: it is called with stand-ins of ansible-core's objects, made of data.
import atexit
import fcntl
import types

# Bytes of printed text after which its memory is freed.
FREED = 1 << 20


def free(file, size):
    """Frees the beginning of a file in memory. Cutting it would lose what others add to its end meanwhile."""
    try:
        # FALLOC_FL_PUNCH_HOLE and FALLOC_FL_KEEP_SIZE
        ctypes.CDLL(None).fallocate(file, 3, ctypes.c_long(0), ctypes.c_long(size))
    except (NameError, AttributeError):
        # A Python built without ctypes keeps the text to its end.
        pass


class Printed:
    """Collects what the plugin, and programs that it starts, print: Windlass masks, escapes and prints that."""

    def __init__(self):
        self.streams = []
        for name, number in (('out', 1), ('err', 2)):
            file = os.memfd_create(name)
            fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
            os.dup2(file, number)
            # Both streams of Python write through, so that their texts stand before the output of later programs.
            stream = os.fdopen(os.dup(number), 'w', encoding='utf-8', errors='replace', buffering=1)
            setattr(sys, 'std' + name, stream)
            self.streams.append([name, file, 0, stream, 0])

    def take(self):
        """Texts printed since the last call, as pairs of a stream and a text."""
        texts = []
        for entry in self.streams:
            name, file, at, stream, freed = entry
            stream.flush()
            size = os.fstat(file).st_size
            if size > at:
                texts.append([name, os.pread(file, size - at, at).decode('utf-8', 'replace')])
                entry[2] = size
                # A callback may print every result of a long run.
                if size - freed >= FREED:
                    free(file, size)
                    entry[4] = size
        return texts


class Host:
    """A host, as a callback sees it."""

    def __init__(self, name):
        self.name = self.address = name
        self.vars, self.groups, self._uuid, self.implicit = {}, [], name, False

    def get_name(self):
        return self.name

    def get_vars(self):
        return dict(self.vars, inventory_hostname=self.name, inventory_hostname_short=self.name.split('.')[0])

    def get_groups(self):
        return list(self.groups)

    def __str__(self):
        return self.name

    __repr__ = __str__

    def __eq__(self, other):
        return isinstance(other, Host) and other.name == self.name

    def __hash__(self):
        return hash(self.name)


class Role:
    """A role, as a callback sees it."""

    def __init__(self, about):
        self.name = self._role_name = about['name']
        self._role_path = about['path']
        self._role_collection = about['collection']

    def get_name(self, include_role_fqcn=True):
        return self._role_name

    def __str__(self):
        return self._role_name

    __repr__ = __str__


class VariableManager:
    """Answers a callback that asks for variables: it gets none, because hosts have theirs in Windlass."""

    extra_vars = _extra_vars = {}

    def get_vars(self, **_):
        return {}


class Fields:
    """Fields from data. A field that the data lacks is None, like one of ansible-core without a value."""

    fields = frozenset()

    def __init__(self, about):
        self._ds = None
        self._about = about
        self._uuid = about.get('uuid')
        for name, value in about.get('fields', {}).items():
            setattr(self, name, value)

    def __getattr__(self, name):
        if name in type(self).fields:
            return None
        raise AttributeError('%s, as Windlass passes it to callbacks, has no %r' % (type(self).__name__, name))

    def get_name(self, include_role_fqcn=True):
        return self._about['label']

    def get_path(self):
        return self._about['path']

    def get_ds(self):
        return self._ds

    def get_vars(self):
        return dict(self.vars or {})

    def get_variable_manager(self):
        return VariableManager()

    def dump_attrs(self):
        return dict(self._about.get('fields', {}))

    serialize = dump_attrs

    def copy(self, **_):
        return self

    def __eq__(self, other):
        return isinstance(other, Fields) and other._uuid == self._uuid

    def __hash__(self):
        return hash(self._uuid)


class Play(Fields):
    """A play, as a callback sees it."""

    fields = frozenset((
        'any_errors_fatal', 'become', 'become_user', 'check_mode', 'collections', 'connection', 'diff', 'environment',
        'fact_path', 'force_handlers', 'gather_facts', 'gather_subset', 'gather_timeout', 'handlers', 'hosts',
        'ignore_errors', 'max_fail_percentage', 'module_defaults', 'no_log', 'order', 'port', 'post_tasks',
        'pre_tasks', 'remote_user', 'roles', 'run_once', 'serial', 'strategy', 'tags', 'tasks', 'timeout',
        'validate_argspec', 'vars', 'vars_files', 'vars_prompt'))

    def get_roles(self):
        return []

    def get_tasks(self):
        return []

    def __str__(self):
        return self._about['label']

    __repr__ = __str__


class Task(Fields):
    """A task or handler, as a callback sees it."""

    fields = frozenset((
        'action', 'any_errors_fatal', 'args', 'async', 'async_val', 'become', 'become_exe', 'become_flags',
        'become_method', 'become_user', 'changed_when', 'check_mode', 'collections', 'connection', 'debugger', 'delay',
        'delegate_facts', 'delegate_to', 'diff', 'environment', 'failed_when', 'ignore_errors', 'ignore_unreachable',
        'listen', 'loop', 'loop_control', 'loop_with', 'module_defaults', 'name', 'no_log', 'notify', 'poll', 'port',
        'register', 'remote_user', 'retries', 'run_once', 'tags', 'throttle', 'timeout', 'until', 'vars', 'when'))

    def __init__(self, about, play):
        super().__init__(about)
        self.implicit, self.statically_loaded = False, True
        self.resolved_action, self.play, self._play = about['resolved'], play, play
        self._ds = {key: value for key, value in about['fields'].items() if key not in ('action', 'args') and value}
        self._ds[self.action] = self.args
        self._role = Role(about['role']) if about['role'] else None
        self._parent = types.SimpleNamespace(
            _play=play, _parent=None, _role=self._role, get_first_parent_include=lambda: None,
            get_name=lambda: '', name='')

    def get_play(self):
        return self.play

    def get_first_parent_include(self):
        return None

    def is_host_notified(self, host):
        return True

    def __repr__(self):
        return 'TASK: ' + self.get_name()


class IncludeTask(Task):
    """A task that includes something: an instance of ansible-core's class for those who ask."""

    @property
    def __class__(self):
        try:
            from ansible.playbook.task_include import TaskInclude
        except ImportError:
            return IncludeTask
        return TaskInclude


class Playbook:
    """A playbook, as a callback sees it."""

    def __init__(self, about):
        self._file_name, self._basedir, self._loader = about['path'], about['folder'], None
        self._entries = [Play({'uuid': name, 'label': name, 'path': None, 'fields': {'name': name}})
                         for name in about['plays']]

    def get_plays(self):
        return list(self._entries)


class Result:
    """A result of a task or of one of its items, as a callback sees it."""

    exception, warnings, deprecations = None, (), ()

    def __init__(self, about):
        self.host = self._host = host_of(about['host'])
        self.task = self._task = tasks[about['task']]
        self.result = self._result = about['result']
        arguments = dict(self.task.args, _ansible_check_mode=bool(active.play and active.play.check_mode))
        self.task_fields = self._task_fields = dict(self.task.dump_attrs(), args=arguments, **about['fields'])
        self.status = about['status']

    @property
    def task_name(self):
        return self.task_fields.get('name') or self.task.get_name()

    def _has(self, key):
        items = self.result.get('results')
        items = items if isinstance(items, list) else []
        return bool(self.result.get(key, any(isinstance(item, dict) and item.get(key) for item in items)))

    _check_key = _has

    @property
    def _loop_results(self):
        items = self.result.get('results')
        return items if isinstance(items, list) else []

    def is_changed(self):
        return self._has('changed')

    def is_skipped(self):
        return self.status == 'skipped'

    def is_failed(self):
        return self.status == 'failed'

    def is_unreachable(self):
        return self.status == 'unreachable'

    def needs_debugger(self, globally_enabled=False):
        return False

    def clean_copy(self):
        return self


class Included:
    """An included file or role, as a callback sees it."""

    def __init__(self, about):
        self._filename, self._args, self._vars = about['what'], {}, about['vars']
        self._hosts = [host_of(name) for name in about['hosts']]
        self._task, self._is_role, self._results = tasks[about['task']], about['is_role'], []


class Stats:
    """Counts of a run, as a callback sees them."""

    KEYS = ('ok', 'failures', 'unreachable', 'changed', 'skipped', 'rescued', 'ignored')

    def __init__(self, about):
        hosts = about['hosts']
        self.processed = {name: 1 for name in hosts}
        self._hosts = hosts
        for key in self.KEYS:
            counts = {name: counted[key] for name, counted in hosts.items() if counted[key]}
            setattr(self, 'dark' if key == 'unreachable' else key, counts)
        self.custom = about['custom']

    def summarize(self, host):
        return {key: self._hosts.get(host, {}).get(key, 0) for key in self.KEYS}


hosts, tasks, plays = {}, {}, {}
active = types.SimpleNamespace(plugin=None, printed=None, methods=None, play=None)


def host_of(name):
    return hosts.setdefault(name, Host(name))


def argument(data):
    """Makes the object that stands for an argument."""
    kind, value = data
    makers = {
        'host': host_of, 'task': tasks.__getitem__, 'play': plays.__getitem__, 'playbook': Playbook, 'result': Result,
        'include': Included, 'stats': Stats, 'context': lambda about: types.SimpleNamespace(**about),
    }
    return makers[kind](value) if kind in makers else value


def prepare(request):
    """Sets up the parts of ansible-core that callbacks read: options of the command line, and the display."""
    from ansible import context
    from ansible.module_utils.common.collections import ImmutableDict

    context.CLIARGS = ImmutableDict(request['cli'])
    try:
        from ansible.utils import display
    except ImportError:
        return
    # Windlass writes the log itself.
    display.logger = None
    shown = display.Display()
    shown.verbosity, shown.columns = request['cli']['verbosity'], request['columns']


def start_callback(request):
    """Loads a callback plugin. Returns the methods that it implements; None if there is no telling."""
    active.printed = Printed()
    try:
        import signal
        # An interrupt at the terminal is for Windlass, which reports the end of the run to the plugin.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        from ansible.plugins import loader

        prepare(request)
        find_collections()
        for folder in request['folders']:
            loader.callback_loader.add_directory(folder)
        found = loader.callback_loader.get(request['name'], class_only=True)
        if found is None:
            return {'state': 'missing', 'printed': active.printed.take()}
        is_stdout = getattr(found, 'CALLBACK_TYPE', '') == 'stdout'
        needs_enabled = getattr(found, 'CALLBACK_NEEDS_ENABLED', getattr(found, 'CALLBACK_NEEDS_WHITELIST', False))
        if not request['stdout'] and (is_stdout or needs_enabled and not request['enabled']):
            return {'state': 'idle', 'printed': active.printed.take()}
        plugin = found()
        if hasattr(plugin, '_init_callback_methods'):
            plugin._init_callback_methods()
            active.methods = set(plugin._implemented_callback_methods)
            active.methods.add('set_play_context')
        if hasattr(plugin, 'set_options'):
            plugin.set_options()
        active.plugin = plugin
    except Exception as error:
        return {'state': 'failed', 'why': reason(error), 'printed': active.printed.take()}
    is_open = active.methods is None or 'v2_on_any' in active.methods
    methods = None if is_open else sorted(active.methods)
    return {'state': 'started', 'methods': methods, 'printed': active.printed.take()}


def reason(error):
    return str(getattr(error, 'message', None) or error or type(error).__name__)


def call_back(request):
    """Calls the plugin with an event. Returns what it printed, and its error."""
    if 'play' in request:
        active.play = plays[request['play']['id']] = Play(request['play'])
    if 'task' in request:
        about = request['task']
        is_include = about['fields']['action'].rsplit('.', 1)[-1] in ('include_tasks', 'include_role')
        tasks[about['id']] = (IncludeTask if is_include else Task)(about, active.play)
    plugin, why = active.plugin, None
    if not getattr(plugin, 'disabled', False):
        for name in request['method'], 'v2_on_any':
            if active.methods is not None and name not in active.methods or not hasattr(plugin, name):
                continue
            if name == 'v2_on_any' and request['method'] == 'set_play_context':
                continue
            arguments = [argument(data) for data in request['arguments']]
            plugin._current_task_result = next((item for item in arguments if isinstance(item, Result)), None)
            try:
                getattr(plugin, name)(*arguments, **request['named'])
            except Exception as error:
                why = reason(error)
    answer = {'printed': active.printed.take(), 'disabled': bool(getattr(plugin, 'disabled', False))}
    return answer if why is None else dict(answer, why=why)


def end_callback():
    """Runs what the plugin left for the end of its process, such as the last upload of a tracer."""
    atexit._run_exitfuncs()
    return {'printed': active.printed.take()}


