// Sources that hold more than images: files that macOS, editors and NAS boxes leave, links, broken
// archives, the same image twice. Nothing is lost or taken twice without a message.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "tests/support/cluster.h"
#include "tests/unit/image_lists.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

class ImageSources : public ImageLists {
protected:
    /// Returns the names that are skipped for a reason, in order.
    static std::vector<std::string> names(const ImageList& list, Skipped why) {
        std::vector<std::string> all = list.count(why).examples;
        std::sort(all.begin(), all.end());
        return all;
    }
    void link(const std::string& to, const std::string& name) const { fs::create_symlink(to, root_ + "/" + name); }
    using Names = std::vector<std::string>;
};

TEST_F(ImageSources, HiddenAndSystemFilesArePassedOverAtEveryDepth) {
    for (const char* name :
         {".ipynb_checkpoints/a-checkpoint.png", "__MACOSX/n01/._x.jpg", "@eaDir/x.jpg", "n01/@eaDir/x.jpg/thumb.jpg",
          "n01/._x.jpg", "n02/deep/.git/x.png", "lost+found/x.jpg", "n10/$RECYCLE.BIN/x.jpg", ".DS_Store"})
        write_file(root_ + "/" + name, "nobody's");
    fs::create_directories(root_ + "/.empty");
    const ImageList list = listed({root_});
    EXPECT_EQ(contents(list), wanted_);
    EXPECT_EQ(list.count(Skipped::hidden).count, 10) << "a folder counts as one";
    const ImageList packed = listed({tar("n01 n02 n10 __MACOSX .ipynb_checkpoints @eaDir")});
    EXPECT_EQ(contents(packed), wanted_);
    EXPECT_EQ(packed.count(Skipped::hidden).count, 7) << "in archives each file counts";
    fs::rename(root_, dir_.path(".cache"));
    EXPECT_EQ(contents(listed({dir_.path(".cache")})), wanted_) << "a source that is named is taken";
}

// xView1_baseline and many others are archives that were packed on a Mac.
TEST_F(ImageSources, ArchivesOfMacsAreThoseOfOthers) {
    const std::string apple("\0\5\26\7\0\2\0\0Mac OS X        ", 24), sets = dir_.path("sets");
    for (int i = 0; i < 3; ++i)
        for (const auto& [ending, content] : {std::pair(".jpg", "image"), {".cls", "1"}}) {
            write_file(sets + "/k" + std::to_string(i) + ending, content);
            write_file(sets + "/._k" + std::to_string(i) + ending, apple);
        }
    ASSERT_EQ(run("cd " + sets + " && tar -cf ../web.tar ._k0.cls ._k0.jpg k0.cls k0.jpg k1.* ._k1.* k2.* ._k2.*").code,
              0);
    EXPECT_EQ(contents(listed({dir_.path("web.tar")})),
              (Names{"1 k0.jpg: image", "1 k1.jpg: image", "1 k2.jpg: image"}));
    for (const char* label : {"n02", "n01", "n10"}) {
        ASSERT_EQ(run("cd " + root_ + "/" + label + " && tar -cf ../" + label + ".tar *").code, 0);
        write_file(root_ + "/._" + label + ".tar", apple);
    }
    EXPECT_EQ(contents(listed({tar("._n10.tar n10.tar ._n01.tar n01.tar ._n02.tar n02.tar")})), wanted_);
}

TEST_F(ImageSources, NoFolderIsReadTwice) {
    link(".", "n01/again");
    link("..", "n02/up");
    link("../n10", "n02/other");
    link("n01", "twin");
    const ImageList list = listed({root_});
    EXPECT_EQ(contents(list), wanted_);
    EXPECT_EQ(names(list, Skipped::loop), (Names{"n01/again", "n02/other", "n02/up", "twin"}));

    write_file(dir_.path("far/a/deep/d.jpg"), "far");
    fs::create_directory_symlink("..", dir_.path("far/a/deep/round"));
    link(dir_.path("far"), "n03");
    link(dir_.path("far/a"), "n04");
    const ImageList more = listed({root_});
    EXPECT_EQ(contents(more).back(), "n10 z.jpeg: zzz");
    const std::vector<std::string> all = contents(more);
    EXPECT_EQ(std::count(all.begin(), all.end(), "n03 d.jpg: far"), 1);
    EXPECT_EQ(all.size(), wanted_.size() + 1);
    EXPECT_EQ(more.count(Skipped::loop).count, 6);
    record_fault("links to folders that hold them, to one another's folders and to nowhere",
                 "each folder read once, each such link named", "as promised", 2);
}

TEST_F(ImageSources, LinksThatLeadNowhereAreNamed) {
    link("gone.jpg", "n01/dead.jpg");
    link("/nowhere/dog", "dog");
    link("round2", "round1");
    link("round1", "round2");
    link("x.jpg/below", "n01/below-a-file");
    const ImageList list = listed({root_});
    EXPECT_EQ(contents(list), wanted_);
    EXPECT_EQ(names(list, Skipped::dead_link), (Names{"dog", "n01/below-a-file", "n01/dead.jpg", "round1", "round2"}));
    link("x.jpg", "n01/same.jpg");
    EXPECT_EQ(contents(listed({root_})).size(), wanted_.size() + 1) << "a link to an image is one";
}

TEST_F(ImageSources, WhatGivesNoImageIsNamed) {
    fs::create_directories(root_ + "/empty/deep");
    write_file(root_ + "/notes/readme.txt", "no image");
    write_file(root_ + "/loose.jpg", "of no class");
    write_file(root_ + "/backup.tar.gz", "");
    write_file(root_ + "/n01/more.zip", "");
    ASSERT_EQ(::mkfifo((root_ + "/n01/pipe.jpg").c_str(), 0600), 0);
    const ImageList list = listed({root_});
    EXPECT_EQ(contents(list), wanted_);
    EXPECT_EQ(names(list, Skipped::no_image), (Names{"empty", "notes"}));
    EXPECT_EQ(names(list, Skipped::unclassed), Names{"loose.jpg"});
    EXPECT_EQ(names(list, Skipped::archive), (Names{"backup.tar.gz", "n01/more.zip"}));
    EXPECT_EQ(names(list, Skipped::special), Names{"n01/pipe.jpg"});
    ASSERT_EQ(list.given.size(), 1u);
    EXPECT_EQ(list.given[0].images, 6);
}

TEST_F(ImageSources, EachThatIsNoArchiveIsNamed) {
    const std::string good = tar("n01"), sets = dir_.path("sets");
    write_file(sets + "/a.tar", read_file(good));
    write_file(sets + "/b.tar", "");
    write_file(sets + "/c.tar", "<html>404 Not Found</html>");
    write_file(sets + "/d.zip", "PK\3\4");
    write_file(sets + "/e.tar.xz", "\xfd\x37zXZ");
    write_file(sets + "/f.tar", std::string(10240, '\0'));
    EXPECT_EQ("", problem({sets}, {"b.tar: is no tar archive, but empty", "c.tar: is no tar archive",
                                   "d.zip: is a zip archive", "e.tar.xz: is compressed by xz"}));
    EXPECT_EQ("", problem({sets + "/a.tar", sets + "/b.tar", sets + "/c.tar"}, {"b.tar", "c.tar"}));
    for (const char* name : {"b.tar", "c.tar", "d.zip", "e.tar.xz"}) fs::remove(sets + "/" + name);
    EXPECT_EQ("", problem({sets}, {"f.tar: holds no .jpg"})) << "an archive of nothing";
    record_fault("archives that are empty, web pages, of another kind or without an image, among sound ones",
                 "exit 3, each of them named", "as promised", 3);
    fs::remove(sets + "/f.tar");
    EXPECT_EQ(listed({sets}).given.at(0).path, sets + "/a.tar");
    ASSERT_EQ(run("cd " + sets + " && echo n01/x.jpg 0 | gzip >list.txt.gz && gzip -k a.tar").code, 0);
    EXPECT_EQ("", problem({sets + "/list.txt.gz"}, {"is gzipped, but holds no tar archive"}));
    EXPECT_EQ("", problem({root_ + "/n01/x.jpg"}, {"x.jpg: is one file", "folder"}));
    write_file(root_ + "/n99.tar", "404 Not Found");
    EXPECT_EQ("", problem({tar("n99.tar", "nested.tar")}, {"nested.tar: n99.tar: is no tar archive"}));
}

TEST_F(ImageSources, TheLastMemberOfANameWins) {
    const std::string all = tar("n01 n02 n10");
    write_file(root_ + "/n02/a.png", "newer");
    ASSERT_EQ(run("cd " + root_ + " && tar -rf " + all + " ./n02/a.png").code, 0);
    std::vector<std::string> wanted = wanted_;
    wanted[2] = "n02 a.png: newer";
    const ImageList list = listed({all});
    EXPECT_EQ(contents(list), wanted);
    EXPECT_EQ(names(list, Skipped::replaced), Names{"n02/a.png"});
    ASSERT_EQ(run("mkdir " + dir_.path("t") + " && tar -xf " + all + " -C " + dir_.path("t")).code, 0);
    EXPECT_EQ(read_file(dir_.path("t/n02/a.png")), "newer") << "as tar unpacks it";
    // files with the same name in two folders are two images
    write_file(root_ + "/set/n02/a.png", "another");
    EXPECT_EQ(contents(listed({tar("n02 set/n02", "two.tar")})).size(), 3u);
}

TEST_F(ImageSources, AnImageHasOneLabel) {
    const std::string path = root_ + "/list.txt";
    write_file(path, "n01/x.jpg cat\nn02/a.png dog\nn01/./x.jpg cat\n");
    ImageList list = listed({path});
    EXPECT_EQ(list.images.size(), 2u);
    EXPECT_EQ(names(list, Skipped::repeated), Names{"n01/./x.jpg"});
    for (const char* again : {"n01/x.jpg", "n02/../n01/x.jpg", "n01//x.jpg"}) {
        write_file(path, std::string("n01/x.jpg cat\n") + again + " dog\n");
        EXPECT_EQ("", problem({path}, {"list.txt", again, "two labels", "'cat'", "'dog'"}));
    }
    write_file(path, "n01/x.jpg 7\nn01/x.jpg 07\n");
    EXPECT_EQ(listed({path}).images.size(), 1u) << "the same number";
    const std::string other = root_ + "/other.txt";
    write_file(other, "n01/x.jpg 8\n");
    EXPECT_EQ("", problem({path, other}, {"other.txt", "two labels"})) << "of two lists";

    const std::string archive = tar("n01 n02 n10"), labels = dir_.path("labels.txt");
    write_file(labels, "n01/x.jpg 1\nx.jpg 2\n");
    EXPECT_EQ("", problem({archive}, {"all.tar", "n01/x.jpg", "two labels"}, labels)) << "one member by two paths";
    fs::create_symlink(archive, dir_.path("link.tar"));
    list = listed({archive, dir_.path("link.tar")});
    EXPECT_EQ(contents(list), wanted_) << "an archive that is named twice";
    EXPECT_EQ(list.count(Skipped::repeated).count, 6);
    EXPECT_EQ(list.given.at(0).images + list.given.at(1).images, 6);
    ASSERT_EQ(run("gzip -k " + archive).code, 0);
    EXPECT_EQ(listed({archive + ".gz", archive + ".gz"}).images.size(), 6u) << "unpacked twice";
}

TEST_F(ImageSources, TextOfOtherEditorsNamesImagesAndClasses) {
    const std::string mark = "\xEF\xBB\xBF", path = root_ + "/list.txt", classes = root_ + "/classes.txt";
    write_file(path, mark + "n01/x.jpg cat\r\nn02/a.png dog\r\n");
    write_file(classes, mark + "cat Katze\r\ndog Hund\r\n");
    ImageList list = listed({path});
    EXPECT_EQ(contents(list), (Names{"cat x.jpg: x", "dog a.png: first"}));
    EXPECT_EQ(name_classes(list, classes).names, (Names{"Katze", "Hund"}));
    write_file(path, std::string("\xFF\xFEn\0\n\0", 6));
    EXPECT_EQ("", problem({path}, {"list.txt", "is UTF-16"}));
    write_file(dir_.path("w/a.jpg"), "image");
    write_file(dir_.path("w/a.cls"), mark + "12\r\n");
    ASSERT_EQ(run("cd " + dir_.path("w") + " && tar -cf ../w.tar *").code, 0);
    list = listed({dir_.path("w.tar")});
    EXPECT_TRUE(list.numbered);
    EXPECT_EQ(list.images[0].label, "12");
}

TEST_F(ImageSources, FilesByAnyPathHaveOneLabel) {
    const std::string path = root_ + "/list.txt", other = dir_.path("lists/other.txt");
    write_file(path, "n01/x.jpg cat\n" + root_ + "/n01/x.jpg dog\n");
    EXPECT_EQ("", problem({path}, {"two labels"})) << "an absolute path";
    write_file(path, "n01/x.jpg cat\n");
    write_file(other, "../root/n01/x.jpg dog\n");
    EXPECT_EQ("", problem({path, other}, {"two labels"}));
    fs::create_directory_symlink(root_, dir_.path("also"));
    EXPECT_EQ(listed({root_, dir_.path("also")}).images.size(), 6u);
}

TEST_F(ImageSources, FoldersWithoutAnImageAreNamedAtAnyDepth) {
    write_file(root_ + "/n01/deep/er/a.heic", "");
    write_file(root_ + "/n03/b.heic", "");
    write_file(root_ + "/n03/more/c.heic", "");
    EXPECT_EQ(names(listed({root_}), Skipped::no_image), (Names{"n01/deep", "n03"}));
}

TEST_F(ImageSources, LinksToPlacesOfOthersAreNamed) {
    const std::string as_nobody = "setpriv --reuid=65534 --clear-groups " + sibling("convoy");
    if (run("test $(id -u) = 0 && " + as_nobody + " --version").code != 0)
        GTEST_SKIP() << "needs root, setpriv, and a checkout that other users may enter";
    write_file(dir_.path("secret/x.jpg"), "secret");
    fs::permissions(dir_.path("secret"), fs::perms::owner_all);
    link(dir_.path("secret/x.jpg"), "n01/theirs.jpg");
    fs::permissions(dir_.path(), fs::perms::all);
    const Finished f =
        run(as_nobody + " convert imagefolder --from " + root_ + " --to " + dir_.path("out") + " --strict");
    EXPECT_EQ("", refusal(f, Exit::bad_input, {"n01/theirs.jpg", "--strict"}));
}

// In WebDataset a key ends at the first dot: img.000.jpg has the key img.
TEST_F(ImageSources, AKeyHasOneLabel) {
    const std::string sets = dir_.path("sets");
    const auto pack = [&](const std::vector<std::pair<std::string, std::string>>& files) {
        fs::remove_all(sets);
        for (const auto& [name, content] : files) write_file(sets + "/" + name, content);
        EXPECT_EQ(run("cd " + sets + " && tar -cf ../web.tar *").code, 0);
        return dir_.path("web.tar");
    };
    EXPECT_EQ("",
              problem({pack({{"img.000.jpg", "a"}, {"img.000.cls", "0"}, {"img.001.jpg", "b"}, {"img.001.cls", "1"}})},
                      {"img.001.cls", "a second label for img", "first dot"}));
    EXPECT_EQ(contents(listed({pack({{"a.jpg", "a"}, {"a.cls", " 3 \n"}})})), Names{"3 a.jpg: a"});
    EXPECT_EQ("", problem({pack({{"a.jpg", "a"}, {"a.cls", "-1"}, {"b.jpg", "b"}, {"b.cls", "1"}})},
                          {"label -1", "begin at 0"}));
    EXPECT_EQ(contents(listed({pack({{"cat/a.jpg", "a"}, {"dog/b.jpg", "b"}, {"doc/style.cls", "LaTeX"}})})),
              (Names{"cat a.jpg: a", "dog b.jpg: b"}));
    const auto is_numbered = [&](const std::string& first, const std::string& second) {
        const std::string one = pack({{"a.jpg", "a"}, {"a.cls", first}}), other = dir_.path("web2.tar");
        fs::rename(one, other);
        return listed({other, pack({{"b.jpg", "b"}, {"b.cls", second}})}).numbered;
    };
    EXPECT_TRUE(is_numbered("1", "2"));
    EXPECT_FALSE(is_numbered("cat", "2")) << "labels are names where any of an archive is one";
    EXPECT_FALSE(is_numbered("1", "cat"));
    const std::string labelled = pack({{"a.jpg", "a"}, {"a.cls", "1"}});
    EXPECT_EQ("", problem({labelled, tar("n01")}, {"all.tar: has no labels", "web.tar has"}));
}

TEST_F(ImageSources, ArchivesInArchivesAreOneClassEach) {
    const auto nested = [&](const std::string& commands) {
        EXPECT_EQ(run("cd " + root_ + " && " + commands).code, 0);
        return dir_.path("nested.tar");
    };
    EXPECT_EQ("", problem({nested("tar -cf all.tar n01 n02 && tar -cf ../nested.tar all.tar")},
                          {"all.tar: holds several folders", "unpack the outer one"}));
    EXPECT_EQ("", problem({nested("echo 1 >n01/x.cls && tar -cf n01.tar n01 && tar -cf ../nested.tar n01.tar")},
                          {"n01.tar: holds labels (n01/x.cls)"}));
    EXPECT_EQ("", problem({nested("rm n01/x.cls && tar -cf n01.tar n01 && tar -czf n02.tar.gz n02 && "
                                  "tar -cf ../nested.tar n01.tar n02.tar.gz")},
                          {"n02.tar.gz: is compressed within another archive"}));
    EXPECT_EQ(contents(listed({nested("tar -cf n02.TAR n02 && tar -cf ../nested.tar n01.tar n02.TAR")})).size(), 4u);
}

// Some megabytes of compressed names took gigabytes of memory. Each image of an archive in an
// archive has the outer name in its class and in its own name.
TEST_F(ImageSources, ArchivesOfLittleButNamesAreRefused) {
    const std::string inner = dir_.path("inner.tar"), good = dir_.path("good.tar"), bad = dir_.path("bad.tar");
    const std::string script =
        "import io, sys, tarfile\n"
        "def write(path, *members):\n"
        "    with tarfile.open(path, 'w', format=tarfile.GNU_FORMAT) as t:\n"
        "        for name, content in members:\n"
        "            info = tarfile.TarInfo(name)\n"
        "            info.size = len(content)\n"
        "            t.addfile(info, io.BytesIO(content))\n"
        "inner, good, bad, broken = sys.argv[1:]\n"
        "write(inner, *((str(i) + '.jpg', b'') for i in range(10000)))\n"
        "content = open(inner, 'rb').read()\n"
        "write(good, ('b.tar', content))\n"
        "write(bad, ('b' * 4000 + '.tar', content))\n"
        "write(broken, ('b' * 4000 + '.tar', b'no archive'))\n";
    write_file(dir_.path("write.py"), script);
    const std::string broken = dir_.path("broken.tar");
    ASSERT_EQ(
        run("/usr/bin/python3 " + dir_.path("write.py") + " " + inner + " " + good + " " + bad + " " + broken).code, 0);
    EXPECT_EQ(listed({good}).images.size(), 10'000U);
    EXPECT_EQ("", problem({bad}, {bad + ": its names take more than 64 MiB"}));
    EXPECT_EQ("", problem({broken}, {broken + ": bbbb", "b…: is no tar archive"}));
}

TEST_F(ImageSources, CompressedArchivesKeepTheirClassNames) {
    ASSERT_EQ(run("cd " + root_ + "/n01 && tar -czf " + dir_.path("2024.01.tgz") + " * && cd ../n02 && tar -czf " +
                  dir_.path("2024.02.tgz") + " *.png && tar -czf " + dir_.path("v1.0.tar.gz") + " *.png")
                  .code,
              0);
    EXPECT_EQ(contents(listed({dir_.path("2024.01.tgz"), dir_.path("2024.02.tgz"), dir_.path("v1.0.tar.gz")})),
              (Names{"2024.01 x.jpg: x", "2024.01 y.JPG: ", "2024.02 a.png: first", "v1.0 a.png: first"}));
}

TEST_F(ImageSources, ImagesBesideTheFoldersOfAnArchiveAreOfNoClass) {
    write_file(root_ + "/preview.png", "preview");
    const ImageList list = listed({tar("preview.png n01 n02 n10")});
    EXPECT_EQ(contents(list), wanted_);
    EXPECT_EQ(names(list, Skipped::unclassed), Names{"preview.png"});
    EXPECT_EQ(contents(listed({tar("preview.png", "one.tar")})), Names{"one preview.png: preview"});
    write_file(root_ + "/list.txt", "preview.png 0\nn01/x.jpg 1\n");
    const ImageList chosen = listed({dir_.path("all.tar")}, root_ + "/list.txt");
    EXPECT_EQ(contents(chosen), (Names{"0 preview.png: preview", "1 x.jpg: x"})) << "a list may name them";
    EXPECT_EQ(chosen.count(Skipped::unnamed).count, 5);
}

}  // namespace
}  // namespace convoy::test
