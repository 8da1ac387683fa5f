#!/usr/bin/env bash
# The Linux bundle, built against an old C library so that it runs on newer ones: Debian 11's
# glibc 2.31, that of Ubuntu 20.04 and JetPack 5. As root, on the architecture it is for:
#
#   packaging/linux.sh WORK_FOLDER [-- MORE_CMAKE_OPTIONS]
#
# Needs debootstrap and git. Takes some 15 minutes on four cores; a second run goes on where the
# first one ended. The result: WORK_FOLDER/dist. JOBS=1 keeps a shared machine usable.
set -euo pipefail
# What is mounted below is gone with this process, also when it is killed.
[[ ${EDGEKV_OWN_MOUNTS:-} ]] || EDGEKV_OWN_MOUNTS=1 exec unshare --mount "$0" "$@"
work=$(realpath -m "$1")
shift
[[ ${1:-} != -- ]] || shift
root=$work/root
repository=$(cd "$(dirname "$0")/.." && pwd)
jobs=${JOBS:-$(nproc)}
# Its gcc 10 knows neither AVX-VNNI nor AMX, so alderlake's processors get haswell and those of
# sapphirerapids zen4; on ARM it knows no SME, so those of armv9.2_2 get armv8.6_1.
case $(uname -m) in
  x86_64) variants=${VARIANTS:-"sse42 sandybridge ivybridge haswell skylakex cascadelake icelake zen4"} ;;
  aarch64) variants=${VARIANTS:-"armv8.0_1 armv8.2_1 armv8.2_2 armv8.6_1"} ;;
esac

if [[ ! -e $root/made ]]; then
  debootstrap --variant=minbase --include=build-essential,ca-certificates,cmake,dpkg-dev,libbz2-dev,libffi-dev,liblzma-dev,libncurses-dev,libsqlite3-dev,libssl-dev,ninja-build,xz-utils,zlib1g-dev bullseye "$root"
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  # From wherever the root itself came, the next release's sources.
  sed 's/^deb /deb-src /; s/bullseye/bookworm/' "$root/etc/apt/sources.list" >"$root/etc/apt/sources.list.d/python.list"
  touch "$root/made"
fi
cp /etc/resolv.conf "$root/etc/"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
inside() { chroot "$root" env -i PATH=/opt/python/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root PIP_CERT=/etc/ssl/certs/ca-certificates.crt "$@"; }

# Debian 11's own Python is too old. Bookworm's source, as a shared library: PyInstaller needs one.
if [[ ! -e $root/opt/python/bin/python3 ]]; then
  inside sh -ec "
    apt-get update && cd /opt && apt-get source --download-only python3.11
    mkdir -p python-source && tar -xf python3.11_*.orig.tar.* -C python-source --strip-components=1
    cd python-source
    ./configure --prefix=/opt/python --enable-shared --disable-test-modules LDFLAGS=-Wl,-rpath,/opt/python/lib
    make -j$jobs && make install
    strip --strip-unneeded /opt/python/lib/libpython3.11.so.1.0"
fi

rm -rf "$root/edgekv"
mkdir "$root/edgekv"
git -C "$repository" archive HEAD | tar -x -C "$root/edgekv"
inside sh -ec "
  cd /edgekv
  [ -e /opt/environment ] || python3 -m venv /opt/environment
  export PATH=/opt/environment/bin:\$PATH
  CMAKE_ARGS=-DLLAMA_BUILD=OFF pip install --quiet -c constraints.txt --no-cache-dir llama-cpp-python
  pip install --quiet -c constraints.txt . pyinstaller
  python packaging/build_library.py --work /opt/llama-work --out /opt/llama --jobs $jobs --variants '$variants' -- $*
  python packaging/bundle.py --libraries /opt/llama --out /edgekv/dist"
mkdir -p "$work/dist"
cp "$root"/edgekv/dist/edgekv-*.tar.xz "$root/edgekv/dist/edgekv-onefile" "$work/dist/"
ls -l "$work/dist"
