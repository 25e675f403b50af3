//! Disks of a node that may be filled or break. Needs the right to mount.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

/// Mounts, says so, and unmounts when its stdin ends, that is, when the test has ended, however it did.
const KEEPER: &str = r#"trap '' INT TERM
target=$1; shift
"$@" "$target" >&2 || exit 1
echo mounted
read -r _
umount -l "$target""#;

/// A disk mounted at a folder for as long as this lives.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
    /// The file that is the device; none for one in memory.
    image: Option<PathBuf>,
    keeper: Option<(Child, ChildStdin)>,
}

impl Disk {
    /// A disk of so many KiB in memory. An error says why this machine does not allow it.
    pub fn in_memory(folder: &Path, size_kib: u32) -> Result<Disk, String> {
        let size = format!("size={size_kib}k");
        Self { folder: folder.to_owned(), image: None, keeper: None }
            .mounted(&["mount", "-t", "tmpfs", "-o", &size, "tmpfs"])
    }

    /// A disk that [`Disk::fail`] can break: a file with ext4 on it.
    pub fn that_fails(folder: &Path, size_mib: u32) -> Result<Disk, String> {
        let image = folder.with_extension("image");
        let file = std::fs::File::create(&image).map_err(|error| error.to_string())?;
        file.set_len(u64::from(size_mib) << 20).map_err(|error| error.to_string())?;
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(&image))?;
        let disk = Self { folder: folder.to_owned(), image: Some(image), keeper: None };
        disk.repaired()
    }

    fn mounted(mut self, command: &[&str]) -> Result<Disk, String> {
        std::fs::create_dir_all(&self.folder).map_err(|error| error.to_string())?;
        let mut keeper = Command::new("/bin/sh")
            .args(["-c", KEEPER, "keeper"])
            .arg(&self.folder)
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let (watch, stdout) = (keeper.stdin.take().expect("a pipe"), keeper.stdout.take().expect("a pipe"));
        let mut said = String::new();
        BufReader::new(stdout).read_line(&mut said).map_err(|error| error.to_string())?;
        if said != "mounted\n" {
            let output = keeper.wait_with_output().map_err(|error| error.to_string())?;
            return Err(format!("{}: {}", command.join(" "), String::from_utf8_lossy(&output.stderr).trim()));
        }
        self.keeper = Some((keeper, watch));
        Ok(self)
    }

    /// Fills it to the last byte.
    pub fn fill(&self) {
        let mut file = std::fs::File::create(self.ballast()).expect("a file on the disk");
        for block in [64 * 1024, 512, 1] {
            while file.write_all(&vec![b'x'; block]).is_ok() {}
        }
    }

    /// Gives the space back.
    pub fn free(&self) {
        std::fs::remove_file(self.ballast()).expect("the file is there");
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }

    /// Breaks it, as far as its file system can tell: from now on it can only be read.
    pub fn fail(&self) {
        run(Command::new("mount").args(["-o", "remount,abort"]).arg(&self.folder)).expect("it breaks");
    }

    /// Checks and mounts it again; nobody may use it.
    pub fn repaired(mut self) -> Result<Disk, String> {
        self.unmount();
        let image = self.image.clone().ok_or("only a file can be repaired")?;
        // 1: errors were corrected.
        let checked = Command::new("e2fsck").arg("-fy").arg(&image).output().map_err(|error| error.to_string())?;
        if checked.status.code().is_none_or(|code| code > 1) {
            return Err(format!("e2fsck: {}", String::from_utf8_lossy(&checked.stdout)));
        }
        self.mounted(&["mount", "-o", "loop", &image.display().to_string()])
    }

    fn unmount(&mut self) {
        if let Some((mut keeper, watch)) = self.keeper.take() {
            drop(watch);
            let _ = keeper.wait();
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.unmount();
    }
}

pub(super) fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{}: {}", command.get_program().display(), String::from_utf8_lossy(&output.stderr).trim()))
}
