# Runs the cache plugin for Windlass, for many hosts at a time.
import time


# The plugin, and whether it is to be asked for the existence of an entry before it reads it.
cache, asks_first = None, False
# Failures in a row, after which the other hosts are not tried: their store does not answer.
failures, MANY = 0, 3
# Seconds and bytes after which an answer is sent, and the largest entry.
SECONDS, ANSWER, ENTRY = 5, 8 << 20, 16 << 20
# Longest message of an error, in characters.
MESSAGE = 4096


def start_cache(request):
    """Loads the cache plugin."""
    global cache, asks_first
    from ansible.plugins import loader

    try:
        # Up to 2.18. Plugins of that time warn of missing files that they read.
        import ansible.vars.fact_cache
        asks_first = True
    except ImportError:
        pass
    find_collections()
    for folder in request['folders']:
        loader.cache_loader.add_directory(folder)
    try:
        cache = loader.cache_loader.get(request['name'])
    except ImportError as error:
        raise LookupError('%s. It needs a library; install it for this Python' % described(error))
    except Exception as error:
        raise LookupError(described(error))
    if cache is None:
        raise LookupError('ansible-core does not find it')
    return True


def described(error):
    """The message of an exception, with that of its cause, which most of ansible-core's have already."""
    text = message_of(error, with_type=True)
    if error.__cause__ is not None and message_of(error.__cause__) not in text:
        text = '%s: %s' % (text.rstrip('.'), message_of(error.__cause__, with_type=True))
    text = ' '.join(text.split())
    # A part of it could end with a part of a secret.
    return text if len(text) <= MESSAGE else 'an error with a message of %d characters, which is not shown' % len(text)


def for_each(hosts, action):
    """Calls a function for hosts. Returns how many were done before time was up, and the errors of some."""
    global failures
    errors, until = {}, time.monotonic() + SECONDS
    for done, host in enumerate(hosts, 1):
        try:
            is_enough = action(host)
            failures = 0
        except Exception as error:
            errors[host], is_enough = described(error), False
            failures += 1
            if failures >= MANY:
                errors.update(dict.fromkeys(hosts[done:], errors[host]))
                return {'done': len(hosts), 'errors': errors}
        if is_enough or time.monotonic() > until:
            break
    return {'done': done, 'errors': errors}


def read_cache(request):
    """Facts of hosts, as texts in JSON: one that cannot be read costs no other."""
    texts, size = {}, 0

    def read(host):
        nonlocal size
        try:
            facts = None if asks_first and not cache.contains(host) else cache.get(host)
        except KeyError:
            facts = None
        if facts is None:
            return False
        if not hasattr(facts, 'items'):
            raise TypeError('it must give a mapping, and not %s' % type(facts).__name__)
        text = json.dumps(of_inventory(facts, None))
        if len(text) > ENTRY:
            raise ValueError('its entry has %d MiB, and at most %d are read' % (len(text) >> 20, ENTRY >> 20))
        texts[host] = text
        size += len(text)
        return size > ANSWER

    return {**for_each(request['hosts'], read), 'facts': texts}


def write_cache(request):
    """Stores the facts of hosts, and removes those of hosts without any."""
    entries = dict(request['entries'])

    def write(host):
        if entries[host] is not None:
            cache.set(host, json.loads(entries[host]))
            return
        try:
            try:
                cache.delete(host)
            except KeyError:
                # Some plugins remove only what they have read.
                cache.get(host)
                cache.delete(host)
        except KeyError:
            pass

    return for_each(list(entries), write)


