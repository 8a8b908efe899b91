"""A disk whose n-th operation fails, for what must survive that."""

from tfopt_core.files import Disk


class Killed(BaseException):
    """Stands in for the death of the process: no handler gets to run on the disk."""


class FailingDisk(Disk):
    """Fails at the n-th operation; a disk that was `killed` does nothing any more from then on."""

    def __init__(self, at, error, *, torn=False):
        self.at, self.error, self.torn, self.count = at, error, torn, 0

    def _step(self):
        self.count += 1
        dead = isinstance(self.error, Killed) and self.count > self.at
        if self.count == self.at or dead:
            raise self.error

    def create(self, path):
        self._step()
        return super().create(path)

    def write(self, file, data):
        if self.torn and self.count + 1 == self.at:
            super().write(file, bytes(data)[: len(bytes(data)) // 2])
            file.flush()
        self._step()
        super().write(file, data)

    def sync(self, file):
        self._step()
        super().sync(file)

    def replace(self, source, target):
        self._step()
        super().replace(source, target)

    def link(self, source, target):
        self._step()
        super().link(source, target)

    def sync_folder(self, folder):
        self._step()
        super().sync_folder(folder)

    def remove(self, path):
        self._step()
        super().remove(path)
