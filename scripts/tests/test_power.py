"""The power cuts without a virtual machine: the disk, the account, the files of a machine."""

import random
import socket
import stat
import struct
import uuid

import pytest

from scripts.power.account import Account
from scripts.power.disk import SECTOR_BYTES, Medium, Server, sparse
from scripts.power.initramfs import Archive, modules
from scripts.power.nvdimm import fletcher64, info_block

SIZE = 1 << 20


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "disk"
    sparse(path, SIZE)
    return path


def _after_cut(image, seed, lies=False):
    """What is left of a flushed and of an unflushed write of three sectors."""
    medium = Medium(image, SIZE, lies)
    medium.write(0, b"a" * 3 * SECTOR_BYTES)
    medium.flush()
    medium.write(0, b"b" * 3 * SECTOR_BYTES)
    assert medium.read(0, 3 * SECTOR_BYTES) == b"b" * 3 * SECTOR_BYTES
    medium.cut(random.Random(seed))
    medium.write(0, b"c" * SECTOR_BYTES)
    medium.flush()
    medium.close()
    left = image.read_bytes()[: 3 * SECTOR_BYTES]
    return bytes(left[at] for at in range(0, len(left), SECTOR_BYTES))


def test_a_cut_keeps_what_was_flushed_and_any_part_of_the_rest(image):
    left = {_after_cut(image, seed) for seed in range(300)}
    assert {b"aaa", b"bbb", b"aba", b"bab"} <= left
    assert set(b"".join(left)) == set(b"ab")


def test_a_disk_that_lies_loses_what_was_flushed(image):
    left = set()
    for seed in range(100):
        sparse(image, SIZE)
        left.add(_after_cut(image, seed, lies=True))
    assert bytes(3) in left


def test_the_disk_speaks_nbd(image, tmp_path):
    medium = Medium(image, SIZE)
    server = Server(medium, tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "socket"))
        assert client.recv(18, socket.MSG_WAITALL).startswith(b"NBDMAGICIHAVEOPT")
        client.sendall(struct.pack(">I", 3))
        client.sendall(b"IHAVEOPT" + struct.pack(">II", 99, 2) + b"??")
        assert client.recv(20, socket.MSG_WAITALL)[12:16] == struct.pack(">I", (1 << 31) + 1)
        client.sendall(b"IHAVEOPT" + struct.pack(">II", 7, 6) + bytes(6))
        information = client.recv(20 + 12 + 20, socket.MSG_WAITALL)
        assert struct.unpack(">Q", information[22:30]) == (SIZE,)

        def ask(kind, offset, length, data=b"", answer=0):
            head = struct.pack(">IHHQQI", 0x25609513, 0, kind, 7, offset, length)
            client.sendall(head + data)
            _, error, handle = struct.unpack(">IIQ", client.recv(16, socket.MSG_WAITALL))
            assert handle == 7
            return error, client.recv(answer, socket.MSG_WAITALL) if answer else b""

        assert ask(1, 4096, 5, b"hello") == (0, b"")
        assert ask(0, 4096, 5, answer=5) == (0, b"hello")
        assert ask(3, 0, 0) == (0, b"")
        assert ask(1, SIZE - 4, 5, b"hello") == (22, b"")
        assert ask(77, 0, 0) == (22, b"")
        client.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 2, 7, 0, 0))
        assert client.recv(1) == b""
    server.close()
    medium.close()
    assert image.read_bytes()[4096:4101] == b"hello"


def _audited(account, *found):
    account.begin_boot()
    for line in found:
        assert account.line(line) is None
    return account.line("audited")


def _told(*lines):
    account = Account()
    for line in lines:
        assert account.line(line) is None
    return account


def test_what_was_acknowledged_must_be_there():
    account = _told("put 1 100", "acked 1", "put 2 200", "acked 2", "put 3 300")
    verdict = _audited(account, "have 1 100")
    assert verdict.lost == ["object 2 of 200 bytes"]
    assert not verdict.torn
    assert not verdict.resurrected


@pytest.mark.parametrize("found", [(), ("have 1 100",)])
def test_what_was_under_way_may_be_there_or_not_and_stays_so(found):
    for under_way in (("put 1 100",), ("put 1 100", "acked 1", "delete 1")):
        account = _told(*under_way)
        assert _audited(account, *found).is_clean
        assert _audited(account, *found).is_clean
        assert not _audited(account, *(() if found else ("have 1 100",))).is_clean


def test_what_was_deleted_stays_deleted():
    account = _told("put 1 100", "acked 1", "delete 1", "deleted 1")
    assert _audited(account, "have 1 100").resurrected == ["object 1"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("have 1 99", "99 bytes instead of 100"),
        ("broken 1 chunk 0 is damaged", "chunk 0 is damaged"),
        ("have 7 1", "object 7 was never put"),
    ],
)
def test_content_that_is_not_right_is_torn(line, words):
    account = _told("put 1 100", "acked 1")
    others = () if line.split()[1] == "1" else ("have 1 100",)
    (torn,) = _audited(account, *others, line).torn
    assert words in torn


def test_a_machine_that_contradicts_itself_is_an_error():
    for lines in (["acked 1"], ["put 1 5", "put 1 5"], ["put 1 5", "delete 1"], ["hello"]):
        account = Account()
        with pytest.raises(ValueError, match=r"object 1|hello"):
            for line in lines:
                account.line(line)


def test_modules_come_after_those_that_they_need(tmp_path):
    for name, needs in (("ext4", "mbcache,jbd2"), ("jbd2", ""), ("mbcache", ""), ("nd-pmem", "x")):
        folder = tmp_path / "kernel" / name
        folder.mkdir(parents=True)
        text = f"\0license=GPL\0depends={needs}\0"
        (folder / f"{name}.ko").write_bytes(text.encode())
    found = [path.stem for path in modules(tmp_path, ["nd_pmem", "ext4", "built_in"])]
    assert found == ["nd-pmem", "mbcache", "jbd2", "ext4"]


def test_the_archive_is_one_that_the_kernel_unpacks():
    archive = Archive()
    archive.folder("dev")
    archive.file("init", b"program")
    whole = archive.finish()
    assert len(whole) % 4 == 0
    names, at = [], 0
    while at < len(whole):
        fields = [int(whole[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        assert whole[at : at + 6] == b"070701"
        length, mode = fields[6], fields[1]
        names.append((whole[at + 110 : at + 110 + fields[11] - 1].decode(), stat.S_IFMT(mode)))
        at += -(-(110 + fields[11]) // 4) * 4
        assert names[-1][0] != "init" or whole[at : at + length] == b"program"
        at += -(-length // 4) * 4
    assert names == [("dev", stat.S_IFDIR), ("init", stat.S_IFREG), ("TRAILER!!!", 0)]


def test_the_info_block_of_an_nvdimm_has_its_checksum():
    block = info_block(512 << 20, uuid.UUID(int=5))
    assert len(block) == 4096
    assert block.startswith(b"NVDIMM_PFN_INFO\0")
    assert struct.unpack("<Q", block[-8:])[0] == fletcher64(block[:-8] + bytes(8))
    # Two words of 1 and 2: the low sum is 3, the high one 1 + 3.
    assert fletcher64(struct.pack("<II", 1, 2)) == 4 << 32 | 3
