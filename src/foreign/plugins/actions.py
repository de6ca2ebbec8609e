# Runs an action plugin for Windlass. Its code runs here, on ansible-core's base class. Windlass performs its operations
# on the host, and the actions that it calls if Windlass has them too.
import mmap
import shlex
import signal


class Action:
    """An action of Windlass, as a plugin gets it from ansible-core's action_loader."""

    def __init__(self, name, task):
        self._name, self._task = name, task

    def run(self, tmp=None, task_vars=None):
        return on_host({'action': self._name, 'vars': packed(changed(task_vars)), **about_task(self._task)})

    def cleanup(self, force=False):
        pass


def about_task(task):
    """What a plugin may have changed in its task, or set in a copy of it."""
    return {'args': packed(task.args), 'check': bool(task.check_mode), 'diff': bool(task.diff)}


def on_host(question):
    """Has Windlass do something on the host. Returns its answer, or raises the error of ansible-core."""
    from ansible.errors import AnsibleConnectionFailure, AnsibleError

    try:
        answer = ask(question)
    except LookupError as error:
        raise AnsibleError(str(error)) from error
    if 'unreachable' in answer:
        raise AnsibleConnectionFailure(answer['unreachable'])
    return answer['result']


def connection_class():
    """The class of the connection that plugins get: commands and files go to the host by way of Windlass."""
    from ansible.plugins.connection import ConnectionBase

    class Connection(ConnectionBase):
        transport = 'ssh'
        has_pipelining = True
        _load_name = ansible_name = 'ssh'

        def __init__(self, play_context, options):
            self.transport = options['connection']
            self._own = options
            super().__init__(play_context)
            self._connected = True

        def _connect(self):
            return self

        def exec_command(self, cmd, in_data=None, sudoable=True, executable=None):
            cmd = cmd.decode('utf-8', 'surrogateescape') if isinstance(cmd, bytes) else cmd
            in_data = in_data.encode() if isinstance(in_data, str) else in_data
            answer = on_host({
                'command': cmd, 'executable': executable, 'input': base64.b64encode(in_data or b'').decode()})
            return answer['rc'], base64.b64decode(answer['stdout']), base64.b64decode(answer['stderr'])

        def put_file(self, in_path, out_path):
            on_host({'put': os.path.abspath(in_path), 'to': out_path})

        def fetch_file(self, in_path, out_path):
            on_host({'fetch': in_path, 'to': os.path.abspath(out_path)})

        def close(self):
            pass

        def reset(self):
            on_host({'reset': True})

        def get_option(self, option, hostvars=None):
            return self._own[option]

        def set_option(self, option, value):
            self._own[option] = value

        def set_options(self, *_, **__):
            pass

    return Connection


def execute_module(self, module_name=None, module_args=None, tmp=None, task_vars=None, persist_files=False,
                   delete_remote_tmp=None, wrap_async=False, ignore_unknown_opts=False):
    question = {'module': module_name or self._task.action, 'async': bool(wrap_async),
                'lenient': bool(ignore_unknown_opts), **about_task(self._task)}
    if module_args is not None:
        question['args'] = packed(module_args)
    return dict(on_host(question), _ansible_parsed=True)


def execute_command(self, cmd, sudoable=True, in_data=None, executable=None,
                    encoding_errors='surrogate_then_replace', chdir=None):
    if chdir:
        cmd = 'cd %s && %s' % (shlex.quote(chdir), cmd)
    status, out, err = self._connection.exec_command(cmd, in_data, executable=executable)
    out, err = out.decode('utf-8', 'replace'), err.decode('utf-8', 'replace')
    return {'rc': status, 'stdout': out, 'stdout_lines': out.splitlines(),
            'stderr': err, 'stderr_lines': err.splitlines()}


actions_ready = False


def prepare_actions():
    """Lets ansible-core's base class use Windlass. Commands and files are those of the task's user."""
    global actions_ready
    from ansible.plugins.action import ActionBase

    if actions_ready:
        return
    actions_ready = True
    find_collections()
    ActionBase._execute_module = execute_module
    ActionBase._low_level_execute_command = execute_command
    # Users who may lack a home directory get a temporary directory of the system.
    ActionBase._is_become_unprivileged = lambda self: self._play_context.become and self._play_context.become_user != 'root'
    ActionBase._fixup_perms2 = lambda self, remote_paths, remote_user=None, execute=True: remote_paths


def own_actions(native):
    """Puts the actions of Windlass before those of ansible-core."""
    from ansible.plugins import loader

    def replace(method, result_of):
        find = getattr(loader.action_loader, method)

        def get(name, *args, **kwargs):
            short = name.removeprefix('ansible.builtin.').removeprefix('ansible.legacy.')
            if short in native and 'task' in kwargs:
                return result_of(Action(short, kwargs['task']))
            return find(name, *args, **kwargs)

        setattr(loader.action_loader, method, get)

    replace('get', lambda action: action)
    replace('get_with_context', lambda action: loader.get_with_context_result(action, None))


def show_details(verbosity):
    """Lets a plugin print the details that -v asks for."""
    try:
        from ansible.utils.display import Display
    except ImportError:
        return
    Display().verbosity = verbosity


def act(request):
    """Runs the plugin. Returns its result, or why the host was not reached."""
    from ansible.errors import AnsibleAction, AnsibleConnectionFailure
    from ansible.parsing.dataloader import DataLoader
    from ansible.playbook.play_context import PlayContext
    from ansible.playbook.task import Task

    prepare_actions()
    prepare_options()
    own_actions(request['native'])
    module = load(request['path'], 'action', request['short'])
    task = Task()
    for name, value in request['task'].items():
        setattr(task, name, unpacked(value))
    # Since 2.19, `resolved_action` is a property that reads this attribute.
    resolved = '_resolved_action' if hasattr(task, '_resolved_action') else 'resolved_action'
    setattr(task, resolved, request['task']['action'])
    task.get_search_path = lambda: list(request['search_paths'])
    show_details(request['play']['verbosity'])
    play = PlayContext()
    for name, value in request['play'].items():
        setattr(play, name, value)
    connection = connection_class()(play, request['options'])
    variables = Variables()
    connection._shell.set_options(var_options={})
    files = DataLoader()
    files.set_basedir(setup['basedir'])
    from ansible.plugins import loader
    plugin = module.ActionModule(task=task, connection=connection, play_context=play, loader=files,
                                 templar=Templar(variables), shared_loader_obj=loader)
    plugin._load_name = plugin.ansible_name = request['short']
    try:
        result = plugin.run(task_vars=variables)
    except AnsibleConnectionFailure as error:
        return {'unreachable': getattr(error, 'message', None) or str(error)}
    except AnsibleAction as error:
        result = dict(error.result)
        result.setdefault('msg', getattr(error, 'message', None) or str(error))
        # Since 2.19, errors have the property `omit_failed_key`.
        if not result.get('skipped') and not getattr(error, 'omit_failed_key', type(error).__name__ == '_AnsibleActionDone'):
            result.setdefault('failed', True)
    finally:
        try:
            plugin.cleanup()
        except AnsibleConnectionFailure:
            # The result, or the earlier error, matters more.
            pass
    is_secret = False
    if isinstance(result, dict):
        is_secret = bool(result.get('_ansible_no_log'))
        # These keys are meant for ansible-core's own executor.
        result = {key: value for key, value in result.items() if not str(key).startswith('_ansible_')}
    return {'result': packed(result), 'is_secret': is_secret}


def act_apart(request):
    """Runs the plugin in a process of its own, as ansible-core does: what it changes there must not reach others.

    That process answers. Where it has not, this one does, and takes no further request: Windlass may still be doing
    what the plugin asked for.
    """
    global asker, turn, is_owed
    # A lookup may have left the timer running.
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    prepare_actions()
    flush()
    has_answered = mmap.mmap(-1, 1)
    # An interrupt at the terminal reaches both processes, and only one may answer.
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    child = os.fork()
    if child:
        why = wait_for(child)
        signal.signal(signal.SIGINT, usual)
        if has_answered[0]:
            is_owed = has_answered[0] == OWED
            return None
        return {'error': why, 'is_last': True}
    try:
        asker, turn = os.getpid(), threading.Lock()
        signal.signal(signal.SIGINT, usual)
        if request['task']['no_log']:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
        try:
            answer = {'value': act(request)}
        except BaseException as error:
            answer = {'error': message_of(error, with_type=True)}
        flush()
        # A process that the plugin has forked may come here too.
        if os.getpid() == asker:
            finish(answer)
            has_answered[0] = OWED if is_owed else 1
    finally:
        os._exit(0)


# Mark of a process that has answered, but to which Windlass owes an answer.
OWED = 2


def wait_for(child):
    """Waits for the process of a plugin. Returns how it has ended, as part of a sentence."""
    try:
        status = os.waitpid(child, 0)[1]
    except BaseException as error:
        return 'its process cannot be waited for: %s' % message_of(error)
    if os.WIFSIGNALED(status):
        return 'its process was ended by the signal %d' % os.WTERMSIG(status)
    return 'its process ended with the exit code %d and without a result' % os.WEXITSTATUS(status)
