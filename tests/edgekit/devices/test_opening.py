import pytest

from edgekit.device import SILENCE_SECONDS, Device
from edgekit.devices.opening import open_device
from edgekit.errors import InputError
from edgekit.registry import device_forms


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("local", "LocalDevice"),
        ("ssh://user@host:22", "SshDevice"),
        ("adb:", "AdbDevice"),
        ("browser:wasm", "BrowserDevice"),
        ("qemu:arm64", "QemuDevice"),
        ("macos", "MacosDevice"),
        ("xcode", "XcodeDevice"),
    ],
)
def test_every_scheme_has_a_device(url: str, name: str) -> None:
    device = open_device(url)
    assert isinstance(device, Device)
    assert type(device).__name__ == name
    assert any(form.startswith(url.partition(":")[0]) for form in device_forms())


def test_how_long_it_may_be_silent() -> None:
    assert open_device("local").timeout == SILENCE_SECONDS
    assert open_device("local", timeout=7).timeout == 7


@pytest.mark.parametrize("url", ["", "usb:", "http://host", "LOCAL"])
def test_what_no_device_has_is_refused_with_what_there_is(url: str) -> None:
    with pytest.raises(InputError, match="there is no such kind of device") as caught:
        open_device(url)
    assert str(caught.value).endswith(f"found: {url}")
    for form in device_forms():
        assert form in str(caught.value)
